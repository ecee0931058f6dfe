"""The systems' own records: logs of ZooKeeper and KRaft, and polling where there are none."""
