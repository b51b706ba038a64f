# The parts turnfold uses are in the modules below.
