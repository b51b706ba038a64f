"""The web inspector: pages that show a context the way a profiler shows a program.

Drawn on the server from the same views as the command line, with one style sheet and one script of our own beside
them. It only reads: nothing a page can ask for changes what is stored, and nothing stored is run or fetched.
"""

from __future__ import annotations

from turnfold.service.inspector.markup import ROOT
from turnfold.service.inspector.serving import inspector_beside, inspector_routes

__all__ = ("ROOT", "inspector_beside", "inspector_routes")
