"""Training losses: functions of tensors that know no model."""
