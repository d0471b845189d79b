"""Dotted names, under which a model's arrays are known."""


def join(parts):
    """Flatten ``{"attention": {"weight": w}}`` to ``{"attention.weight": w}``."""
    return {
        f"{part}.{name}": array
        for part, arrays in parts.items()
        for name, array in arrays.items()
    }


def summary(names):
    """Return names for an error message: in order, at most three, then how many more."""
    names = sorted(names)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more if names else "none"
