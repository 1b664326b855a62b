"""What tests of real trainings share."""

from tests.sooner import start_sooner

__all__ = ["start_sooner"]
