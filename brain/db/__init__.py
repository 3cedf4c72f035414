"""Access to PostgreSQL that knows no table of any feature: pools, migrations, advisory locks."""
