"""Jobs that spark-submit runs: each module is a program with the options of its command."""
