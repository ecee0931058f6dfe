"""later"""
from pathlib import Path

from reports.campaign.data import CampaignData


def read_campaign(folder: Path) -> CampaignData:
    raise NotImplementedError
