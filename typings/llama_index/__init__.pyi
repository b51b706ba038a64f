# What turnfold uses of LlamaIndex: it brings some 100 MB, so the environment that checks types does without.
