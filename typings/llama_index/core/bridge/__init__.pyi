# See pydantic.
