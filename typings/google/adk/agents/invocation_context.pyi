from google.adk.agents.base_agent import BaseAgent

class InvocationContext:
    invocation_id: str
    agent: BaseAgent
