"""An analysis: the mean temperature of each of five days."""
import netCDF4

for _ in range(5):
    with netCDF4.Dataset("sst.nc") as file:
        print(f"day {file.day}: {file['sst'][:].mean():.4f} degrees")
