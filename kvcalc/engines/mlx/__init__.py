"""MLX (mlx-lm)."""
