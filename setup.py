"""Puts the example files, whose one place is examples/, into the package of the app; pyproject.toml says all else."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithExamples(build_py):
    """Builds the packages, and the app's with its examples; a checkout that is installed to be edited has them."""

    def run(self) -> None:
        """Build."""
        super().run()
        if self.editable_mode or "retriever_app" not in self.packages:
            return
        target = Path(self.build_lib, "retriever_app", "examples")
        self.mkpath(str(target))
        for file in sorted(Path("examples").glob("*.jsonl")):
            self.copy_file(str(file), str(target / file.name))


setup(cmdclass={"build_py": BuildWithExamples})
