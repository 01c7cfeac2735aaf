"""Attribution: how much of a drop, or of a churn, is which factor, with intervals, or refused."""
