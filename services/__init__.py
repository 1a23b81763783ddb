"""Use cases behind the facade; they know the domain alone."""
