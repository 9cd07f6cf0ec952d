"""Charts as SVG text, drawn on the server: pure functions with no style but classes and attributes.
Each page has the same numbers in a table beside the chart.

``timeline``: what happened around an incident, on one line of time.
"""
