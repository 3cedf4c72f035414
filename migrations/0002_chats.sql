-- Chats with their attachments and search rows, personas, and what a chat leaves behind: dropped regions, given memories.
-- Only new tables: locks nothing that is in use.
-- depends: 0001_extensions

CREATE TABLE chats (
    -- Byte order: the list is paged by id, and paging must not depend on the collation of the database.
    id           text COLLATE "C" NOT NULL,
    title        text NOT NULL DEFAULT 'New chat',
    -- The neutral message format, attachments replaced by marks into the table attachments.
    chat_json    text NOT NULL DEFAULT '[]',
    eltm_version text NOT NULL DEFAULT '',
    persona_id   bigint NOT NULL DEFAULT 0,
    -- Counts changes of chat_json, so that nobody overwrites a history that was changed meanwhile.
    revision     bigint NOT NULL DEFAULT 0,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now(),
    pinned       boolean NOT NULL DEFAULT false,
    archived     boolean NOT NULL DEFAULT false,
    temporary    boolean NOT NULL DEFAULT false,
    remember     boolean NOT NULL DEFAULT true,
    CONSTRAINT chats_pkey PRIMARY KEY (id),
    CONSTRAINT chats_id_not_blank CHECK (id <> '')
);

-- The ordinary list, without archived and temporary chats.
CREATE INDEX chats_listed ON chats (id) WHERE NOT archived AND NOT temporary;

CREATE TABLE personas (
    id                 bigserial,
    name               text NOT NULL,
    system_prompt      text NOT NULL,
    -- A JSON array of names; empty means every namespace.
    allowed_namespaces text NOT NULL DEFAULT '[]',
    remember           boolean NOT NULL DEFAULT true,
    CONSTRAINT personas_pkey PRIMARY KEY (id),
    CONSTRAINT personas_id_positive CHECK (id > 0)
);

-- One row per distinct content, whoever uses it.
CREATE TABLE attachments (
    sha256     bytea NOT NULL,
    content    bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT attachments_pkey PRIMARY KEY (sha256),
    CONSTRAINT attachments_sha256_length CHECK (length(sha256) = 32)
);

-- Images are compressed already.
ALTER TABLE attachments ALTER COLUMN content SET STORAGE EXTERNAL;

-- Dropped regions of compactions, in the order in which they were dropped.
CREATE TABLE chat_drops (
    chat_id          text COLLATE "C" NOT NULL,
    n                integer NOT NULL,
    created_at       timestamptz NOT NULL DEFAULT now(),
    dropped_messages integer NOT NULL,
    rounds           integer NOT NULL,
    messages_json    text NOT NULL,
    CONSTRAINT chat_drops_pkey PRIMARY KEY (chat_id, n),
    CONSTRAINT chat_drops_chat_fkey FOREIGN KEY (chat_id) REFERENCES chats (id) ON DELETE CASCADE
);

-- Which contents a chat uses: n = 0 for its history, otherwise the dropped region of that number.
CREATE TABLE attachment_links (
    chat_id text COLLATE "C" NOT NULL,
    n       integer NOT NULL,
    sha256  bytea NOT NULL,
    CONSTRAINT attachment_links_pkey PRIMARY KEY (chat_id, n, sha256),
    CONSTRAINT attachment_links_chat_fkey FOREIGN KEY (chat_id) REFERENCES chats (id) ON DELETE CASCADE,
    CONSTRAINT attachment_links_attachment_fkey FOREIGN KEY (sha256) REFERENCES attachments (sha256)
);

CREATE INDEX attachment_links_sha256 ON attachment_links (sha256);

-- Which memories a turn was given, and why memory was left out if it was.
CREATE TABLE turn_memories (
    chat_id            text COLLATE "C" NOT NULL,
    turn_id            text NOT NULL,
    -- The createdAt of the user message: indexes move when a chat is compacted.
    message_created_at text NOT NULL,
    note_ids           bigint[] NOT NULL DEFAULT '{}',
    entity_ids         bigint[] NOT NULL DEFAULT '{}',
    degraded           text,
    created_at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT turn_memories_pkey PRIMARY KEY (chat_id, turn_id),
    CONSTRAINT turn_memories_chat_fkey FOREIGN KEY (chat_id) REFERENCES chats (id) ON DELETE CASCADE
);

-- What can be found: one row per message with text, and one with message_index -1 for a title that a person or a model gave.
CREATE TABLE chat_search (
    chat_id            text COLLATE "C" NOT NULL,
    message_index      integer NOT NULL,
    role               text,
    message_created_at text,
    -- The text as it is shown, and the same folded for comparison (compatibility forms and case).
    body               text NOT NULL,
    folded             text NOT NULL,
    -- Single characters and pairs of scripts that are written without spaces.
    grams              text[] NOT NULL DEFAULT '{}',
    -- Of all the above, so that a store rewrites only the rows that changed.
    digest             bytea NOT NULL,
    CONSTRAINT chat_search_pkey PRIMARY KEY (chat_id, message_index),
    CONSTRAINT chat_search_chat_fkey FOREIGN KEY (chat_id) REFERENCES chats (id) ON DELETE CASCADE
);

CREATE INDEX chat_search_folded ON chat_search USING gin (folded gin_trgm_ops);
CREATE INDEX chat_search_grams ON chat_search USING gin (grams);
