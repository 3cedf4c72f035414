"""``make bench``: every speed measurement in turn, each as a ratio against something run beside it.

Builds the fake gateway and the load client into ``.make/bench``; needs a C compiler, ``taskset`` and two cores.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
BUILT = ROOT / ".make" / "bench"


def main() -> int:
    """Build, then run the measurements of hand, brain and memory; the exit code of the first that fails."""
    missing = [name for name in ("cc", "taskset") if shutil.which(name) is None]
    if missing:
        print(f"the bench needs {' and '.join(missing)}; nothing was measured", file=sys.stderr)
        return 1
    BUILT.mkdir(parents=True, exist_ok=True)
    for name in ("upstream", "load"):
        subprocess.run(["cc", "-O2", "-o", str(BUILT / name), str(PROGRAMS / f"{name}.c"), "-lm"], check=True)
    for title, module, arguments in (
        ("The hand against the bare gateway", "tests.perf.hand_bench", ["--print"]),
        ("Brain and hand", "tests.perf.brain_bench", ["--print"]),
        ("The memory", "tests.perf.memory_bench", ["--print"]),
    ):
        print(f"\n## {title}\n", flush=True)
        code = subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
