from google.adk.events.event import Event

class Session:
    id: str
    app_name: str
    user_id: str
    events: list[Event]
