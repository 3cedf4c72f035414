-- What `daapu doctor` measured of each model of the catalog: one row per model, the newest wins. Locks nothing.
-- depends: 0001_extensions

CREATE TABLE model_measurements (
    model_id    text        NOT NULL,
    measured_at timestamptz NOT NULL DEFAULT now(),
    measurement jsonb       NOT NULL,
    CONSTRAINT model_measurements_pkey PRIMARY KEY (model_id)
);
