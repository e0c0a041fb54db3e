"""MNIST and CIFAR10: images as graphs of superpixels."""
