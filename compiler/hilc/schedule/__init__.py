"""Which kernels and fused groups a program takes: the search, and logs of measurements.

``policy`` has the constants of the search; ``estimate`` what a kernel or a fused group takes,
``groups`` which groups are tried, ``partition`` the cheapest partition for a limit, ``pareto`` the
frontier of them, ``goals`` what a goal takes of it, and ``search`` puts these together.
"""
