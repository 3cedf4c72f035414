-- Which turns are live and on which replica, and the tools that a person allowed for a whole chat.
-- Only new tables: locks nothing that is in use.
-- depends: 0002_chats

CREATE TABLE live_turns (
    chat_id    text COLLATE "C" NOT NULL,
    turn_id    text NOT NULL,
    -- A new random id for every start of a brain: an address alone cannot tell a restarted one from its predecessor.
    owner      text NOT NULL,
    address    text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    -- Moved by the owner every few seconds; old: the owner was killed.
    seen_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT live_turns_pkey PRIMARY KEY (chat_id),
    CONSTRAINT live_turns_chat_fkey FOREIGN KEY (chat_id) REFERENCES chats (id) ON DELETE CASCADE
);

CREATE INDEX live_turns_owner ON live_turns (owner);

CREATE TABLE tool_grants (
    chat_id    text COLLATE "C" NOT NULL,
    -- The advertised name of the tool.
    tool       text NOT NULL,
    granted_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT tool_grants_pkey PRIMARY KEY (chat_id, tool),
    CONSTRAINT tool_grants_chat_fkey FOREIGN KEY (chat_id) REFERENCES chats (id) ON DELETE CASCADE
);
