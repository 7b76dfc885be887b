"""Counts slowly, on standard output and standard error by turns, falls silent in between, and ends in the middle of a line."""

import sys
import time

for number in range(100):
    print("number", number, file=(sys.stdout, sys.stderr)[number % 2], flush=True)
    time.sleep(20 if number == 69 else 0.1)
sys.stdout.write("number 100")
