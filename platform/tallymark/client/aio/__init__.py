"""The faces for coroutines, over the same cores."""
