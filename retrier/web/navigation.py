"""The pages that the bar at the top leads to, in its order."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One page of the bar."""

    path: str
    name: str


NAVIGATION = (
    Place(path="/", name="Overview"),
    Place(path="/groups", name="Groups"),
    Place(path="/messages", name="Messages"),
    Place(path="/operations", name="Operations"),
    Place(path="/pending", name="Pending"),
    Place(path="/archived", name="Archived"),
    Place(path="/imports", name="Imports"),
    Place(path="/redirects", name="Redirects"),
    Place(path="/breakers", name="Breakers"),
    Place(path="/streams", name="Streams"),
    Place(path="/policies", name="Policies"),
    Place(path="/events", name="Events"),
    Place(path="/processor", name="Processor"),
)
