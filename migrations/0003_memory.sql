-- The long-term memory: entities, attributes, relationships and notes, their names, words and vectors, where they came from,
-- what was changed or forgotten, and the state of its long-running work.
-- New tables only: locks nothing that exists.
-- depends: 0001_extensions

CREATE TABLE gsg_meta_number (
    key   text   CONSTRAINT gsg_meta_number_pk PRIMARY KEY,
    value bigint NOT NULL
);

INSERT INTO gsg_meta_number (key, value)
VALUES ('eltm_version', 0),
       ('eltm_maintenance', 0);

-- One row per act of forgetting: what was marked by it comes back by undoing it.
CREATE TABLE eltm_forgets (
    id         bigserial   CONSTRAINT eltm_forgets_pk PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE eltm_entities (
    id             bigserial CONSTRAINT eltm_entities_pk PRIMARY KEY,
    canonical_name text      NOT NULL,
    category       text      NOT NULL DEFAULT 'general',
    terms          text[]    NOT NULL DEFAULT '{}',
    forget_id      bigint    CONSTRAINT eltm_entities_forget_fk REFERENCES eltm_forgets (id),
    CONSTRAINT eltm_entities_name_not_blank CHECK (canonical_name <> ''),
    CONSTRAINT eltm_entities_category_not_blank CHECK (category <> '')
);

-- A forgotten entity does not stand in the way of a new one of the same name.
CREATE UNIQUE INDEX eltm_entities_key ON eltm_entities (canonical_name, category) WHERE forget_id IS NULL;
CREATE INDEX eltm_entities_name_trigrams ON eltm_entities USING gin (canonical_name gin_trgm_ops);
CREATE INDEX eltm_entities_terms ON eltm_entities USING gin (terms) WITH (fastupdate = off);
CREATE INDEX eltm_entities_forget ON eltm_entities (forget_id) WHERE forget_id IS NOT NULL;

CREATE TABLE eltm_entity_attributes (
    entity_id bigint NOT NULL CONSTRAINT eltm_entity_attributes_entity_fk REFERENCES eltm_entities (id) ON DELETE CASCADE,
    key       text   NOT NULL,
    value     text   NOT NULL,
    CONSTRAINT eltm_entity_attributes_pk PRIMARY KEY (entity_id, key)
);

-- Other names of an entity: what it was called before, and what was merged into it.
CREATE TABLE eltm_aliases (
    entity_id bigint NOT NULL CONSTRAINT eltm_aliases_entity_fk REFERENCES eltm_entities (id) ON DELETE CASCADE,
    alias     text   NOT NULL,
    CONSTRAINT eltm_aliases_pk PRIMARY KEY (entity_id, alias)
);

CREATE INDEX eltm_aliases_alias ON eltm_aliases (alias);
CREATE INDEX eltm_aliases_trigrams ON eltm_aliases USING gin (alias gin_trgm_ops);

CREATE TABLE eltm_relationships (
    id        bigserial CONSTRAINT eltm_relationships_pk PRIMARY KEY,
    src_id    bigint    NOT NULL CONSTRAINT eltm_relationships_src_fk REFERENCES eltm_entities (id) ON DELETE CASCADE,
    dst_id    bigint    NOT NULL CONSTRAINT eltm_relationships_dst_fk REFERENCES eltm_entities (id) ON DELETE CASCADE,
    verb      text      NOT NULL,
    valid     boolean   NOT NULL DEFAULT true,
    forget_id bigint    CONSTRAINT eltm_relationships_forget_fk REFERENCES eltm_forgets (id),
    CONSTRAINT eltm_relationships_verb_not_blank CHECK (verb <> '')
);

CREATE UNIQUE INDEX eltm_relationships_key ON eltm_relationships (src_id, dst_id, verb) WHERE forget_id IS NULL;
CREATE INDEX eltm_relationships_src ON eltm_relationships (src_id, id DESC);
CREATE INDEX eltm_relationships_dst ON eltm_relationships (dst_id, id DESC);
CREATE INDEX eltm_relationships_forget ON eltm_relationships (forget_id) WHERE forget_id IS NOT NULL;

-- terms: the distinct words and n-grams of the text; word_count: how many there were, for the length rule of the ranking.
-- text_hash: of the text as duplicates are compared.
CREATE TABLE eltm_notes (
    id              bigserial   CONSTRAINT eltm_notes_pk PRIMARY KEY,
    entity_id       bigint      CONSTRAINT eltm_notes_entity_fk REFERENCES eltm_entities (id) ON DELETE CASCADE,
    relationship_id bigint      CONSTRAINT eltm_notes_relationship_fk REFERENCES eltm_relationships (id) ON DELETE CASCADE,
    event_date      date        NOT NULL,
    note            text        NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    created_by      text        NOT NULL DEFAULT 'writer',
    edited          boolean     NOT NULL DEFAULT false,
    terms           text[]      NOT NULL DEFAULT '{}',
    word_count      integer     NOT NULL DEFAULT 0,
    text_hash       bytea       NOT NULL,
    forget_id       bigint      CONSTRAINT eltm_notes_forget_fk REFERENCES eltm_forgets (id),
    CONSTRAINT eltm_notes_one_subject CHECK (num_nonnulls(entity_id, relationship_id) = 1),
    CONSTRAINT eltm_notes_note_not_blank CHECK (note <> ''),
    CONSTRAINT eltm_notes_created_by CHECK (created_by IN ('person', 'writer', 'import'))
);

CREATE INDEX eltm_notes_entity ON eltm_notes (entity_id, event_date DESC, id DESC);
CREATE INDEX eltm_notes_relationship ON eltm_notes (relationship_id, event_date DESC, id DESC);
CREATE INDEX eltm_notes_date ON eltm_notes (event_date DESC, id DESC);
CREATE INDEX eltm_notes_hash ON eltm_notes (text_hash);
CREATE INDEX eltm_notes_terms ON eltm_notes USING gin (terms) WITH (gin_pending_list_limit = 256);
CREATE INDEX eltm_notes_forget ON eltm_notes (forget_id) WHERE forget_id IS NOT NULL;

-- A generation is one embedding model's space. Its two partial HNSW indexes are created together with its row.
CREATE TABLE eltm_vector_generations (
    id           serial      CONSTRAINT eltm_vector_generations_pk PRIMARY KEY,
    model_id     text        NOT NULL,
    dimensions   integer     NOT NULL,
    state        text        NOT NULL,
    floor        real,
    near_floor   real,
    created_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT eltm_vector_generations_dimensions CHECK (dimensions BETWEEN 1 AND 2000),
    CONSTRAINT eltm_vector_generations_state CHECK (state IN ('active', 'filling', 'retired'))
);

CREATE UNIQUE INDEX eltm_vector_generations_one_active ON eltm_vector_generations (state) WHERE state = 'active';
CREATE UNIQUE INDEX eltm_vector_generations_one_filling ON eltm_vector_generations (state) WHERE state = 'filling';

-- The one row that names the active generation; writers share-lock it, a switch locks it.
CREATE TABLE eltm_vector_state (
    only_row          boolean CONSTRAINT eltm_vector_state_pk PRIMARY KEY DEFAULT true,
    active_generation integer CONSTRAINT eltm_vector_state_active_fk REFERENCES eltm_vector_generations (id),
    CONSTRAINT eltm_vector_state_only_row CHECK (only_row)
);

INSERT INTO eltm_vector_state (only_row) VALUES (true);

-- hidden: the owner is forgotten. Part of the index condition, so that a search never meets such a row.
CREATE TABLE eltm_note_vectors (
    note_id    bigint  NOT NULL CONSTRAINT eltm_note_vectors_note_fk REFERENCES eltm_notes (id) ON DELETE CASCADE,
    generation integer NOT NULL
               CONSTRAINT eltm_note_vectors_generation_fk REFERENCES eltm_vector_generations (id) ON DELETE CASCADE,
    embedding  halfvec NOT NULL,
    hidden     boolean NOT NULL DEFAULT false,
    CONSTRAINT eltm_note_vectors_pk PRIMARY KEY (note_id, generation)
);

CREATE TABLE eltm_entity_vectors (
    entity_id  bigint  NOT NULL CONSTRAINT eltm_entity_vectors_entity_fk REFERENCES eltm_entities (id) ON DELETE CASCADE,
    generation integer NOT NULL
               CONSTRAINT eltm_entity_vectors_generation_fk REFERENCES eltm_vector_generations (id) ON DELETE CASCADE,
    embedding  halfvec NOT NULL,
    hidden     boolean NOT NULL DEFAULT false,
    CONSTRAINT eltm_entity_vectors_pk PRIMARY KEY (entity_id, generation)
);

-- Inline storage: a scan that compares vectors should not fetch each from a side table.
ALTER TABLE eltm_note_vectors ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE eltm_entity_vectors ALTER COLUMN embedding SET STORAGE PLAIN;

CREATE TABLE eltm_extraction_runs (
    id               uuid        CONSTRAINT eltm_extraction_runs_pk PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id           bigint,
    kind             text        NOT NULL,
    chat_id          text,
    chat_title       text,
    first_message    integer,
    last_message     integer,
    extraction_model text        NOT NULL,
    writer_model     text        NOT NULL,
    prompt_version   text        NOT NULL,
    rung             text,
    outcome          text,
    facts            integer     NOT NULL DEFAULT 0,
    facts_dropped    integer     NOT NULL DEFAULT 0,
    started_at       timestamptz NOT NULL DEFAULT now(),
    finished_at      timestamptz,
    CONSTRAINT eltm_extraction_runs_kind CHECK (kind IN ('chat', 'replay', 'digest'))
);

CREATE INDEX eltm_extraction_runs_chat ON eltm_extraction_runs (chat_id) WHERE chat_id IS NOT NULL;

CREATE TABLE eltm_note_sources (
    id                 bigserial   CONSTRAINT eltm_note_sources_pk PRIMARY KEY,
    note_id            bigint      NOT NULL CONSTRAINT eltm_note_sources_note_fk REFERENCES eltm_notes (id) ON DELETE CASCADE,
    run_id             uuid        NOT NULL
                       CONSTRAINT eltm_note_sources_run_fk REFERENCES eltm_extraction_runs (id) ON DELETE CASCADE,
    fact               integer,
    message_index      integer,
    message_created_at timestamptz,
    excerpt            text        NOT NULL DEFAULT '',
    created_at         timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT eltm_note_sources_excerpt_length CHECK (char_length(excerpt) <= 2000)
);

CREATE UNIQUE INDEX eltm_note_sources_key ON eltm_note_sources (note_id, run_id, message_index, fact) NULLS NOT DISTINCT;
CREATE INDEX eltm_note_sources_run ON eltm_note_sources (run_id);

-- What was done to a record after it was written. "before" and "after" are the text as a person reads it.
CREATE TABLE eltm_revisions (
    id           bigserial   CONSTRAINT eltm_revisions_pk PRIMARY KEY,
    subject_type text        NOT NULL,
    subject_id   bigint      NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    author       text        NOT NULL,
    change       text        NOT NULL,
    before       text,
    after        text,
    CONSTRAINT eltm_revisions_subject_type CHECK (subject_type IN ('note', 'entity', 'relationship')),
    CONSTRAINT eltm_revisions_author CHECK (author IN ('person', 'writer', 'import')),
    CONSTRAINT eltm_revisions_change CHECK (change IN ('created', 'edited', 'forgotten', 'restored', 'moved'))
);

CREATE INDEX eltm_revisions_subject ON eltm_revisions (subject_type, subject_id, id);

-- Erased statements as keyed hashes: enough to recognise one that comes back, not enough to read it.
CREATE TABLE eltm_kept_out (
    hash       bytea       CONSTRAINT eltm_kept_out_pk PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE eltm_kept_out_key (
    only_row boolean CONSTRAINT eltm_kept_out_key_pk PRIMARY KEY DEFAULT true,
    key      bytea   NOT NULL,
    CONSTRAINT eltm_kept_out_key_only_row CHECK (only_row)
);

-- One row: the re-embedding that runs or ran last. A worker holds it by token and keeps the lease alive.
CREATE TABLE eltm_reembed (
    only_row    boolean     CONSTRAINT eltm_reembed_pk PRIMARY KEY DEFAULT true,
    state       text        NOT NULL DEFAULT 'idle',
    generation  integer,
    entities    bigint      NOT NULL DEFAULT 0,
    notes       bigint      NOT NULL DEFAULT 0,
    error       text,
    token       uuid,
    lease_until timestamptz,
    CONSTRAINT eltm_reembed_only_row CHECK (only_row),
    CONSTRAINT eltm_reembed_state CHECK (state IN ('idle', 'running', 'finished', 'failed'))
);

INSERT INTO eltm_reembed (only_row) VALUES (true);
