-- A run whose content was erased is closed: it writes nothing more.
-- A column with a constant default: the table is not rewritten, and locked only for a moment.
-- depends: 0003_memory

ALTER TABLE eltm_extraction_runs ADD COLUMN closed boolean NOT NULL DEFAULT false;
