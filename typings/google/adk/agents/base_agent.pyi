class BaseAgent:
    name: str
    @property
    def root_agent(self) -> BaseAgent: ...
