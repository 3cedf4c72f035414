"""PostgreSQL: pools, migrations, advisory locks, vectors."""
