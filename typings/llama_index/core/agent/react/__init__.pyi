# See formatter and types.
