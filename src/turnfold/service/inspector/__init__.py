"""The web inspector: read-only pages that show sessions, calls and contexts.

Pages are rendered on the server from the same views as the command line, with one style sheet and one script. Nothing
a page can request changes stored data, and nothing stored is executed or fetched.
"""

from __future__ import annotations

from turnfold.service.inspector.html import ROOT
from turnfold.service.inspector.routes import inspector_beside, inspector_routes

__all__ = ("ROOT", "inspector_beside", "inspector_routes")
