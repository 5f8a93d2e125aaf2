"""Sources of a build, as clients upload them."""

import io
import tarfile


def archive_of(files: dict[str, str]) -> bytes:
    """A .tar.gz of these files by name."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return archive.getvalue()
