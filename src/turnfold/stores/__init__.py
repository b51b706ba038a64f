"""Stores keep conversations: in memory, in SQLite or in PostgreSQL, behind one protocol.

Other stores wrap one of these: a Redis cache, encryption, and redaction of secrets.
"""

from __future__ import annotations

from turnfold._lazy_loading import late_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from turnfold.stores.adapter_conversations import (
        ADAPTER_HOMES,
        CLAUDE_HOMES,
        ITEM_HOMES,
        LANGGRAPH_HOMES,
        PYDANTIC_AI_HOMES,
        AdapterHomes,
        adapters_in,
        derived_conversations,
        document_name,
        erase_derived,
        has_derived,
        is_adapter_conversation,
        is_home,
        list_sessions,
        name_digest,
        new_home,
        refuse_erased,
        short_name,
    )
    from turnfold.stores.addresses import (
        may_hold_password,
        open_store,
        shown_address,
        split_address,
        with_cache,
    )
    from turnfold.stores.content_digests import content_digest, plain_digest
    from turnfold.stores.encryption.keys import EncryptionKey, read_key_file
    from turnfold.stores.encryption.refuse_encrypted import refuse_encrypted
    from turnfold.stores.encryption.store import EncryptedStore
    from turnfold.stores.export_format import FORMAT
    from turnfold.stores.export_import import Progress, Transferred, digest, export_to, import_from
    from turnfold.stores.log_semantics import log_mark
    from turnfold.stores.memory_store import MemoryStore
    from turnfold.stores.paged_reads import (
        all_conversations,
        all_documents,
        all_entries,
        was_erased,
    )
    from turnfold.stores.protocol import (
        Ability,
        Appended,
        Captured,
        ConversationInfo,
        ConversationOpening,
        Erasure,
        Head,
        Health,
        Piece,
        Restored,
        Scope,
        State,
        Store,
        View,
        Written,
        check_name,
    )
    from turnfold.stores.redacting_store import RedactingStore, Redaction, redaction_of
    from turnfold.stores.sqlite.engine import SAFE_SQLITE, sqlite_version
    from turnfold.stores.sqlite.file_checks import is_blank
    from turnfold.stores.sqlite.status import SqliteStatus, sqlite_faults, sqlite_status
    from turnfold.stores.sqlite.store import SqliteStore

__all__ = (
    "ADAPTER_HOMES",
    "CLAUDE_HOMES",
    "FORMAT",
    "ITEM_HOMES",
    "LANGGRAPH_HOMES",
    "PYDANTIC_AI_HOMES",
    "SAFE_SQLITE",
    "Ability",
    "AdapterHomes",
    "Appended",
    "Captured",
    "ConversationInfo",
    "ConversationOpening",
    "EncryptedStore",
    "EncryptionKey",
    "Erasure",
    "Head",
    "Health",
    "MemoryStore",
    "Piece",
    "Progress",
    "RedactingStore",
    "Redaction",
    "Restored",
    "Scope",
    "SqliteStatus",
    "SqliteStore",
    "State",
    "Store",
    "Transferred",
    "View",
    "Written",
    "adapters_in",
    "all_conversations",
    "all_documents",
    "all_entries",
    "check_name",
    "content_digest",
    "derived_conversations",
    "digest",
    "document_name",
    "erase_derived",
    "export_to",
    "has_derived",
    "import_from",
    "is_adapter_conversation",
    "is_blank",
    "is_home",
    "list_sessions",
    "log_mark",
    "may_hold_password",
    "name_digest",
    "new_home",
    "open_store",
    "plain_digest",
    "read_key_file",
    "redaction_of",
    "refuse_encrypted",
    "refuse_erased",
    "short_name",
    "shown_address",
    "split_address",
    "sqlite_faults",
    "sqlite_status",
    "sqlite_version",
    "was_erased",
    "with_cache",
)

_HOMES = {
    "turnfold.stores.addresses": "split_address may_hold_password open_store shown_address with_cache",
    "turnfold.stores.adapter_conversations": "ADAPTER_HOMES CLAUDE_HOMES ITEM_HOMES LANGGRAPH_HOMES PYDANTIC_AI_HOMES "
    "AdapterHomes adapters_in "
    "derived_conversations document_name erase_derived has_derived is_adapter_conversation is_home list_sessions "
    "name_digest new_home refuse_erased short_name",
    "turnfold.stores.content_digests": "content_digest plain_digest",
    "turnfold.stores.encryption.keys": "EncryptionKey read_key_file",
    "turnfold.stores.encryption.refuse_encrypted": "refuse_encrypted",
    "turnfold.stores.encryption.store": "EncryptedStore",
    "turnfold.stores.export_format": "FORMAT",
    "turnfold.stores.paged_reads": "all_conversations all_documents all_entries was_erased",
    "turnfold.stores.log_semantics": "log_mark",
    "turnfold.stores.memory_store": "MemoryStore",
    "turnfold.stores.protocol": "Ability Appended Captured ConversationInfo ConversationOpening Erasure Head Health "
    "Piece Restored Scope State Store View Written check_name",
    "turnfold.stores.redacting_store": "RedactingStore Redaction redaction_of",
    "turnfold.stores.sqlite.engine": "SAFE_SQLITE sqlite_version",
    "turnfold.stores.sqlite.file_checks": "is_blank",
    "turnfold.stores.sqlite.status": "SqliteStatus sqlite_faults sqlite_status",
    "turnfold.stores.sqlite.store": "SqliteStore",
    "turnfold.stores.export_import": "Progress Transferred digest export_to import_from",
}

__getattr__, __dir__ = late_names(__name__, _HOMES)
