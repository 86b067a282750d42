"""Search for the kernels and fused groups of a program, and logs of measurements.

``policy`` has the constants of the search; ``estimate`` the cost estimates, ``groups`` the fused
groups that are tried, ``partition`` the cheapest partition for a limit, ``pareto`` the Pareto
frontier, ``goals`` the selection for a goal, and ``search`` combines them. ``called`` plans the
graphs that IF and WHILE call.
"""
