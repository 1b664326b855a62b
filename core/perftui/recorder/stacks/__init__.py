"""Stack samples of the training and its data-loader workers."""
