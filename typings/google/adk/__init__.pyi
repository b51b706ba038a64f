# What turnfold uses of Google ADK: it brings some 100 packages, so the environment that checks types does without.
