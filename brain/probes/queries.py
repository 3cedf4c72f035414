"""SQL of the measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from brain.probes.probe import Measurement

if TYPE_CHECKING:
    from psycopg import AsyncConnection


async def store_measurement(conn: AsyncConnection, model_id: str, measurement: Measurement) -> None:
    """Keep the newest measurement of a model."""
    await conn.execute(
        """
        INSERT INTO model_measurements (model_id, measurement)
        VALUES (%(model_id)s, %(measurement)s::jsonb)
            ON CONFLICT (model_id) DO UPDATE
           SET measured_at = now(),
               measurement = excluded.measurement
        """,
        {"model_id": model_id, "measurement": msgspec.json.encode(measurement).decode()},
    )


async def find_measurements(conn: AsyncConnection) -> dict[str, Measurement]:
    """Return the measurement of every model that was ever measured, by catalog id."""
    cursor = await conn.execute(
        """
        SELECT model_id,
               measurement::text
          FROM model_measurements
         ORDER BY model_id
        """,
    )
    return {str(row[0]): msgspec.json.decode(str(row[1]), type=Measurement) for row in await cursor.fetchall()}
