-- The extraction queue and the state of replays. Both live in the database so that any number of brains can share them
-- and a restart loses nothing. New tables only: locks nothing that exists.
-- depends:

CREATE TABLE pending_extractions (
    id bigserial CONSTRAINT pending_extractions_pkey PRIMARY KEY,
    -- The dropped region as a JSON array of neutral messages.
    chat_json text NOT NULL,
    -- Not before this moment; while a lease is held, the moment at which the lease ends.
    visible_after timestamptz NOT NULL DEFAULT now(),
    -- Where the messages come from: no foreign key, because a deleted chat is what most jobs are about.
    chat_id text NULL,
    chat_title text NOT NULL DEFAULT '',
    -- Position of the first message in its chat.
    first_index integer NOT NULL DEFAULT 0 CONSTRAINT pending_extractions_first_index_check CHECK (first_index >= 0),
    message_count integer NOT NULL DEFAULT 0,
    -- Jobs with the same key never run at the same time; NULL = no restriction.
    serial_key text NULL,
    lease uuid NULL,
    attempts integer NOT NULL DEFAULT 0,
    -- Attempts that failed because of the job's own content, in a row; outages do not count.
    content_failures integer NOT NULL DEFAULT 0,
    last_error text NULL,
    parked boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pending_extractions_parked_check CHECK (NOT parked OR lease IS NULL)
);

-- The claim walks claimable rows in order of id.
CREATE INDEX pending_extractions_claim_index ON pending_extractions (id) WHERE NOT parked AND lease IS NULL;
-- Held leases: few rows, looked through at every claim for those that have run out.
CREATE INDEX pending_extractions_lease_index ON pending_extractions (visible_after) WHERE lease IS NOT NULL;
-- One job per chat at a time, whatever the workers do.
CREATE UNIQUE INDEX pending_extractions_serial_key_index ON pending_extractions (serial_key) WHERE lease IS NOT NULL;
CREATE INDEX pending_extractions_chat_index ON pending_extractions (chat_id);

CREATE TABLE replay_runs (
    id bigserial CONSTRAINT replay_runs_pkey PRIMARY KEY,
    state text NOT NULL CONSTRAINT replay_runs_state_check CHECK (state IN ('running', 'finished', 'failed')),
    compaction_rounds integer NOT NULL,
    context_rounds integer NOT NULL,
    messages_total integer NOT NULL,
    windows_compacted integer NOT NULL DEFAULT 0,
    jobs_queued integer NOT NULL DEFAULT 0,
    -- The whole upload as a JSON array of neutral messages; emptied when the walk ends.
    upload_json text NOT NULL,
    -- Position in the upload of the first message that is not queued yet, and the summary that stands for what is.
    next_index integer NOT NULL DEFAULT 0,
    summary_json text NULL,
    title text NOT NULL DEFAULT '',
    error text NULL,
    lease uuid NULL,
    lease_until timestamptz NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- One walk at a time, across all brains.
CREATE UNIQUE INDEX replay_runs_single_flight_index ON replay_runs ((true)) WHERE state = 'running';
