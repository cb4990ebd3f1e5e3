"""What can go wrong around a program, made to happen: kills, races, full disks, damaged files.

The tests in ``tests/faults`` do a little of each; ``python tests/faults/long.py`` does all of it.
"""
