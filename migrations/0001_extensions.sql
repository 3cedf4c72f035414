-- The extensions every later migration builds on: vectors, and substring and typo search.
-- Creating an extension needs a superuser or a database owner with trusted extensions; the error of a server that has no
-- pgvector is explained by the runner.
-- depends:

CREATE EXTENSION IF NOT EXISTS vector;
CREATE EXTENSION IF NOT EXISTS pg_trgm;
