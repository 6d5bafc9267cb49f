"""The closed loop: requests queue, are scheduled into steps, and take what the clock says, in a deployment's pool."""
