"""The kernels of SEPIN: InfoNCE without each feature in turn."""
