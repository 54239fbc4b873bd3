"""What was measured, as Markdown tables and SVG plots."""

import math
import subprocess


def number(value):
    """Three significant digits, whole from 100 on; texts as they are."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    if math.isnan(value):
        return ""
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{value:.3g}"


def table(title, records, note=""):
    """Records (dicts) to a Markdown table; columns in order of first appearance."""
    if not records:
        return ""
    columns = list(dict.fromkeys(key for record in records for key in record))
    lines = [f"## {title}", "", *([note, ""] if note else []),
             "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(number(record.get(c)) for c in columns) + " |" for record in records]
    return "\n".join(lines) + "\n\n"


def series(records, x, y, axes, names):
    """
    Group records into lines of y against x, {label: [(x, y)]}: a line holds the other axes fixed, is labelled by
    what it does not share with the other lines, and has at least two points.
    """
    fixed = [name for name in (*names, *axes) if name != x]
    lines = {}
    for record in records:
        if record.get(x) is not None and record.get(y) is not None:
            lines.setdefault(tuple(record.get(name) for name in fixed), {})[record[x]] = record[y]
    lines = {key: sorted(points.items()) for key, points in lines.items() if len(points) >= 2}
    telling = [i for i, name in enumerate(fixed) if name in names or len({key[i] for key in lines}) > 1]
    return {", ".join(f"{fixed[i]} {key[i]}" if fixed[i] in axes else str(key[i]) for i in telling
                      if key[i] is not None): points for key, points in lines.items()}


def plot(path, title, x_label, y_label, lines, caption=""):
    """Lines of points on two logarithmic axes to an SVG file.  Returns whether there was anything to draw."""
    if not lines:
        return False
    data = "".join(f"$line{i} << EOD\n" + "".join(f"{x} {y}\n" for x, y in points) + "EOD\n"
                   for i, points in enumerate(lines.values()))
    ticks = ", ".join(f"'{x:,}' {x}" for x in sorted({x for points in lines.values() for x, _ in points}))
    drawn = ", ".join(f"$line{i} with linespoints pt 7 ps 0.5 title {quoted(label)}" for i, label in enumerate(lines))
    script = f"""
set terminal svg size 900,560 font 'sans,12' background '#ffffff'
set output {quoted(str(path))}
set title {quoted(title + (chr(10) + caption if caption else ''))} noenhanced
set xlabel {quoted(x_label)}
set ylabel {quoted(y_label)}
set logscale xy
set xtics ({ticks}) rotate by -30
set key outside right top noenhanced
set grid
plot {drawn}
"""
    subprocess.run(["gnuplot"], input=data + script, text=True, check=True)
    return True


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', "'").replace("\n", "\\n") + '"'


def knee(name, points):
    """
    The sentence on one line of p99 against connections; points are (connections, requests a second, p99 ms).
    The knee is the fewest connections that give nine tenths of the most that any number gives.
    """
    most = max(rate for _, rate, _ in points)
    at, rate, p99 = next(point for point in points if point[1] >= 0.9 * most)
    last, _, last_p99 = points[-1]
    return (f"{name}: the knee is at {at} connection{'s' * (at > 1)} with {number(rate)} requests a second "
            f"({number(100 * rate / most)} % of the most) and a p99 of {number(p99)} ms; more connections only wait, "
            f"{number(last_p99)} ms at {last}.")
