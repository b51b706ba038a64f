"""What turnfold costs, beside its peers and the raw limits, measured in the same run.

Absolute times belong to a machine and a moment; what is claimed are ratios and growth. Each file answers one question
(`window`, `counting`, `memory`, `imports`, `prefix`; of stores `appends`, `stores_read`, `stores_servers`); each
file of `peers` brings one peer into all of them.
"""
