# See workflow.
