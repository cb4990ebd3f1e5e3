"""The linear probe: multinomial logistic regression on features, solved to convergence."""
