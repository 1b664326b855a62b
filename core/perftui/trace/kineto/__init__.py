"""The JSON traces of torch.profiler (Kineto, Chrome format): plain or gzip, damaged or not."""
