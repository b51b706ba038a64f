"""The log as the table `ai_message` that earlier tools query: one row per turn, one per checkpoint.

A turn's row has the user's text as `query` and the last text of the assistant as `answer`. A checkpoint's row has
`query = '[MEMORY_CHECKPOINT]'`, its summary as `answer`, its id as `message_id` and `create_by =
'turnfold:checkpoint'`. A user may type that marker: the row is then still a turn's, with `create_by = 'user'` and
a `message_id` of the form `conversation#seq`.

The documented queries order by `create_time` and read "what came after the checkpoint" from it, so here it never
stands still or goes back, whatever the clock did: two microseconds are added per entry, and a checkpoint stands
right after the last turn it covers wholly. `update_time` is the clock's own.

The view shows the tenant of the session (`SET turnfold.tenant = 'name'`) and is walled like the tables. JSON
cannot give PostgreSQL a NUL character; the view shows U+FFFD in its place.
"""

# ruff: noqa: S608 (statements are joined from constants written here; every value is bound)

from __future__ import annotations

__all__ = ("DOCUMENTED_VIEW",)

_OWN = "tenant = current_setting('turnfold.tenant', true)"

# An escaped NUL is a backslash that no backslash escapes, followed by u0000.
_READABLE = r"""
CREATE FUNCTION turnfold_json(body bytea) RETURNS json
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN regexp_replace(convert_from(body, 'UTF8'), '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')::json
"""

_MESSAGE_TEXT = """
CREATE FUNCTION turnfold_text(message json) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT coalesce(string_agg(part.value ->> 'text', '' ORDER BY part.ordinality), '')
            FROM json_array_elements(message -> 'parts') WITH ORDINALITY AS part
            WHERE part.value ->> 'kind' = 'text')
"""

# `place` is the time by which the view orders: the latest time seen so far, and two microseconds per entry.
_VIEW = f"""
CREATE VIEW ai_message WITH (security_invoker = true) AS
WITH entry AS NOT MATERIALIZED (
    SELECT conversation, seq, turn, created, turnfold_json(body) AS message,
           max(created) OVER (PARTITION BY conversation ORDER BY seq) + 2 * seq AS place
    FROM turnfold_entry WHERE {_OWN}
), turn AS NOT MATERIALIZED (
    SELECT conversation, turn, min(seq) AS first, max(seq) AS last, min(place) AS place, max(place) AS until,
           max(created) AS updated,
           (array_agg(turnfold_text(message) ORDER BY seq) FILTER (WHERE message ->> 'role' = 'user'))[1] AS query,
           (array_agg(turnfold_text(message) ORDER BY seq DESC)
               FILTER (WHERE message ->> 'role' = 'assistant' AND turnfold_text(message) <> ''))[1] AS answer
    FROM entry GROUP BY conversation, turn
)
SELECT conversation || '#' || first AS message_id, conversation AS conversation_id,
       coalesce(query, '') AS query, coalesce(answer, '') AS answer,
       'epoch'::timestamptz + place * interval '1 microsecond' AS create_time, 'user' AS create_by,
       'epoch'::timestamptz + updated * interval '1 microsecond' AS update_time, 'assistant' AS update_by
FROM turn WHERE query IS NOT NULL OR answer IS NOT NULL
UNION ALL
SELECT id, conversation, '[MEMORY_CHECKPOINT]', turnfold_json(record) ->> 'text',
       'epoch'::timestamptz + coalesce(
           (SELECT max(turn.until) + 1 FROM turn
            WHERE turn.conversation = checkpoint.conversation AND turn.last <= checkpoint.upto),
           (SELECT min(entry.place) - 1 FROM entry WHERE entry.conversation = checkpoint.conversation)
       ) * interval '1 microsecond', 'turnfold:checkpoint',
       'epoch'::timestamptz + created * interval '1 microsecond', 'turnfold:checkpoint'
FROM turnfold_checkpoint AS checkpoint WHERE {_OWN}
"""

# A database that serves the earlier tools may have a table of that name, which stays as it is.
_VIEW_UNLESS_TAKEN = f"""
DO $create$ BEGIN IF to_regclass('ai_message') IS NULL THEN EXECUTE $view${_VIEW}$view$; END IF; END $create$
"""

DOCUMENTED_VIEW = (_READABLE, _MESSAGE_TEXT, _VIEW_UNLESS_TAKEN)
