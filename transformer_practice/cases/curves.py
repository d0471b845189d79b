"""A loss curve beside the right one, as a drawing that any browser shows."""

import math

import numpy as np

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 480, 260, 48, 16, 36


def curve_svg(losses: np.ndarray, right: np.ndarray) -> str:
    """Draw two loss curves on a logarithmic axis, the right one in grey."""
    both = np.log10(np.concatenate([losses, right]))
    low, high = math.floor(both.min() * 2) / 2, math.ceil(both.max() * 2) / 2

    def x(step):
        return LEFT + (WIDTH - LEFT - 8) * (step - 1) / (len(right) - 1)

    def y(power):
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - power) / (high - low)

    def line(values, style):
        points = " ".join(
            f"{x(step):.1f},{y(math.log10(value)):.1f}"
            for step, value in enumerate(values, start=1)
        )
        return f'<polyline points="{points}" fill="none" {style}/>'

    def text(at, content, anchor="middle"):
        return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" text-anchor="{anchor}">{content}</text>'

    ticks = np.arange(low, high + 0.25, 0.5)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            ' font-family="sans-serif" font-size="11">',
            f"<title>Loss from {losses[0]:.3g} to {losses[-1]:.3g}; "
            f"the right one from {right[0]:.3g} to {right[-1]:.3g}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
            *(
                f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - 8}" stroke="#ddd"/>'
                + text((LEFT - 6, y(tick) + 4), f"{10**tick:.2g}", "end")
                for tick in ticks
            ),
            *(text((x(step), HEIGHT - 20), step) for step in (1, len(right) // 2, len(right))),
            text((WIDTH / 2, HEIGHT - 4), "step; grey: the right one, blue: this run"),
            line(right, 'stroke="#999" stroke-width="3"'),
            line(losses, 'stroke="#1f5fa8" stroke-width="1.2"'),
            "</svg>\n",
        ]
    )
