class Plugin:
    name: str
