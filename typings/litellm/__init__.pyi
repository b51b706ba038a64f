# What turnfold uses of LiteLLM: importing it takes seconds, so the environment that checks types does without.
acompletion: object
