"""The description of the machine that results are stored with, and writing of JSON files."""

import json
import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON file through a temporary file, so that it is never incomplete."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def machine(device: str = "cpu") -> dict[str, Any]:
    """Return the properties of this machine that timings depend on, with the accelerator if one is
    used.
    """
    about = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "gigabytes": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
    }
    return (
        about
        if device == "cpu"
        else about | {"accelerator": _accelerator(device), "torch": version("torch")}
    )


def described(machine: dict[str, Any]) -> str:
    """Return a machine as one line of text."""
    text = (
        f"{machine['processor']}, {machine['cores']} cores, {machine['gigabytes']} GB, "
        f"{machine['system']}, "
        f"Python {machine['python']}, NumPy {machine['numpy']}"
    )
    if "accelerator" in machine:
        text += f", {machine['accelerator']}, PyTorch {machine['torch']}"
    return text


def _accelerator(device: str) -> str:
    import torch

    parts = device.split(",")
    return ", ".join(
        torch.cuda.get_device_name(part) if part.startswith("cuda") else part for part in parts
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
